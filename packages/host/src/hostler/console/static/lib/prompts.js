// Messages that an agent offers, and their text with arguments: pure.

/**
 * @typedef {{name: string, description?: string | null, required?: boolean}} Argument
 * @typedef {{name: string, title?: string | null, description?: string | null, text: string, arguments: Argument[]}} Prompt
 */

/** What people see of a prompt. @param {Prompt} prompt */
export const titleOf = (prompt) => prompt.title || prompt.name;

/** The text with its values, as the host makes it. @param {Prompt} prompt @param {Map<string, string>} values */
export const filled = (prompt, values) =>
  prompt.text.replace(/\{([^{}]*)\}/g, (place, name) => (prompt.arguments.some((one) => one.name === name) ? values.get(name) ?? "" : place));
