"""Files to Lark: they are uploaded first, and sent by their keys. Nobody sees what was only uploaded."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from hostler_lark.api import UPLOAD_SECONDS, Api
from hostler_lark.names import text_of
from hostler_sdk.channels import ArtifactRef, Channel, NotSent, UnclearError
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files

FILE_LIMITS = FileLimits(files=10, bytes_each=30 * MIB, bytes_all=100 * MIB, empty=False)
"""Files of one message, which are in memory while it is sent. Lark takes 30 MiB each, and no empty ones."""
MAX_IMAGE_BYTES = 10 * MIB
"""Of an image, as Lark takes them; larger ones are sent as files."""
MAX_NAME = 200
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"}
_TYPES = {
    "audio/ogg": ("opus", "audio"),
    "audio/opus": ("opus", "audio"),
    "video/mp4": ("mp4", "media"),
    "application/pdf": ("pdf", "file"),
}
"""By MIME type: what Lark calls a file, and the type of its message."""
_OTHER = ("stream", "file")


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """A message of Lark: its type and content."""

    kind: str
    content: str


class Uploads:
    """Reads the files of messages from the host, and uploads them."""

    def __init__(self, api: Api, channel: Channel) -> None:
        self._api = api
        self._channel = channel

    async def upload(self, attachments: list[ArtifactRef]) -> list[Part]:
        """Upload files, and return their messages. All are read before. Raises NotSent."""
        files = await read_files(self._channel, attachments, FILE_LIMITS)
        try:
            return [await self._upload(one) for one in files]
        except UnclearError as error:  # it is uploaded anew
            raise NotSent(f"a file could not be uploaded: {error}") from None

    async def _upload(self, file: OutgoingFile) -> Part:
        name = file.name.replace("\r", " ").replace("\n", " ")[-MAX_NAME:]
        given = (name, file.content, file.mime_type)
        if file.mime_type in _IMAGES and len(file.content) <= MAX_IMAGE_BYTES:
            path, fields = "/open-apis/im/v1/images", {"image_type": "message"}
            try:
                return Part("image", await self._key(path, fields, {"image": given}, "image_key"))
            except NotSent as error:
                if not error.final:
                    raise
                logger.info("an image is sent as a file, as Lark refused it: %s", error.message)
        kind, message = _TYPES.get(file.mime_type, _OTHER)
        path, fields = "/open-apis/im/v1/files", {"file_type": kind, "file_name": name}
        return Part(message, await self._key(path, fields, {"file": given}, "file_key"))

    async def _key(
        self, path: str, fields: dict[str, str], files: dict[str, tuple[str, bytes, str]], key: str
    ) -> str:
        found = await self._api.data("POST", path, None, fields, files, seconds=UPLOAD_SECONDS)
        value = text_of(found.get(key))
        if value is None:
            raise NotSent("a file could not be uploaded: Lark gave no key of it")
        return json.dumps({key: value})
