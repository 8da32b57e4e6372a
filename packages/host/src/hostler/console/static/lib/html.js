// Preact with tagged templates, and the signals that components read.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";
import "../vendor/signals.js"; // components that read a signal are rendered again when it changes

export { Component, Fragment, createRef, render } from "../vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";

export const html = htm.bind(h);
