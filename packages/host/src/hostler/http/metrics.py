"""`/metrics` for Prometheus: counters of the server, and samples read from the host at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Sample:
    """One metric family read from the host. `values`: label values -> number."""

    def __init__(
        self, name: str, help_text: str, values: dict[tuple[str, ...], float], labels: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.help_text = help_text
        self.values = values
        self.labels = labels

    def family(self) -> Metric:
        """Return it as a family of the client library: a counter for a name in `_total`, else a gauge."""
        is_counter = self.name.endswith("_total")
        family: CounterMetricFamily | GaugeMetricFamily = (
            CounterMetricFamily if is_counter else GaugeMetricFamily
        )(self.name, self.help_text, labels=self.labels)
        for key, value in self.values.items():
            family.add_metric(key, value)
        return family


class _Scrape:
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = list(samples)

    def collect(self) -> Iterator[Metric]:
        for sample in self._samples:
            yield sample.family()


class Metrics:
    """The counters of this server. Labels come from closed sets, so that clients cannot make them grow."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "hostler_http_requests_total",
            "HTTP requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "hostler_http_request_seconds",
            "From the request's headers to the end of its answer; event streams count when they end.",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._events = Counter(
            "hostler_events_total",
            "Events taken over HTTP, by what became of them; duplicates counted apart.",
            ["outcome", "duplicate"],
            registry=self._registry,
        )

    def count_event(self, outcome: str, *, duplicate: bool) -> None:
        """Count one accepted event."""
        self._events.labels(outcome, "true" if duplicate else "false").inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one finished request and its duration."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def expose(self, samples: Iterable[Sample]) -> bytes:
        """Return the counters and these samples in Prometheus' text format."""
        scrape = CollectorRegistry()
        scrape.register(_Scrape(samples))
        return generate_latest(self._registry) + generate_latest(scrape)
