"""AG-UI: agents in front ends, such as CopilotKit's: `POST /ag-ui/{agent}` runs one, and streams events."""
