"""What holds at this host."""

from __future__ import annotations

from hostler.host.machine_checks import Verdict
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler_protocol._base import Strict


class FindingRecord(Strict):
    """The result of one check; `text` says what was found and, if it is wrong, what to do."""

    what: str
    verdict: Verdict
    text: str


@endpoint("GET", "/v1/doctor", right="installation", tag="operations")
async def list_findings(request: ApiRequest) -> Listing[FindingRecord]:
    """Check the machine of the host, its data directory, workers, plugins and configuration.

    As `hostler doctor` does there. What was found of the machine is good for a minute.
    """
    found = await request.state.host.doctor.findings()
    return Listing(items=[FindingRecord(what=one.what, verdict=one.verdict, text=one.text) for one in found])
