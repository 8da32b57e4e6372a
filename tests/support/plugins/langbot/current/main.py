from langbot_plugin.api.definition.plugin import BasePlugin


class PuppetPlugin(BasePlugin):
    async def initialize(self) -> None:
        print("a stray line on standard output")
        print('{"type": "looks like a message"}')
