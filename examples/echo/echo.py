"""The smallest useful runner."""

from hostler_sdk import RunContext, Runner, delta, message


class Echo(Runner):
    """Repeats what you say."""

    capabilities = {"streaming"}
    permissions = {"history": ["page"]}
    config = [{"name": "suffix", "type": "string", "default": "!"}]

    async def run(self, ctx: RunContext):
        """Stream the words, then say the whole."""
        for word in ctx.input.text.split():
            yield delta(word + " ")
        yield message(ctx.input.text + ctx.config["suffix"])
