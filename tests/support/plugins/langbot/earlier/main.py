from langbot_plugin.api.definition.plugin import BasePlugin


class OldPuppetPlugin(BasePlugin):
    pass
