// Where the focus goes when a panel is closed.
import { useLayoutEffect, useRef, useState } from "./html.js";

/**
 * Of a panel beside other things: closed while the focus is in it, it gives the focus back to what opened it. Returns the ref of
 * its element.
 */
export function useReturnFocus() {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  const [opener] = useState(() => document.activeElement); // before anything in the panel takes the focus
  useLayoutEffect(() => () => {
    const within = panel.current?.contains(document.activeElement);
    if (within && opener instanceof HTMLElement && opener.isConnected) opener.focus();
  }, []);
  return panel;
}
