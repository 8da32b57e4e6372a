"""The UI message stream of the AI SDK, as `useChat` of React, Vue and Svelte reads it."""
