// Long work in pieces, so that keys, scrolling and pictures come between them: no task of a page is long.

/** A picture is due every 16 ms, and layout and painting need a part of that, too. */
const TURN_MS = 6;
/** The most pieces before one picture, however fast they are: what they add is laid out together. */
const MOST_PIECES = 4;
/** Where nothing is painted, as behind another tab, the next picture is not waited for. */
const NO_PICTURE_MS = 100;

/** For a loop: `if (turn.over()) await turn.next();` lets others have theirs. */
export class Turn {
  constructor() {
    this._began = performance.now();
  }

  over() {
    return performance.now() - this._began >= TURN_MS;
  }

  /** In a task of its own, which a hidden tab has as soon as any other. @returns {Promise<void>} */
  async next() {
    const { port1, port2 } = new MessageChannel();
    await new Promise((go) => {
      port1.onmessage = go;
      port2.postMessage(null);
    });
    port1.close();
    this._began = performance.now();
  }
}

/** Run `work` before the next picture; soon, where nothing is painted. @param {() => void} work */
export function beforeNextPicture(work) {
  let done = false;
  const once = () => {
    if (!done) work();
    done = true;
  };
  requestAnimationFrame(once);
  setTimeout(once, NO_PICTURE_MS);
}

/** @type {Set<() => void>} */
const pieces = new Set();
let awaited = false;

/**
 * Run a piece of work before one of the next pictures, after those that wait already; a few are run before each.
 * What is returned calls it off.
 * @param {() => void} piece
 */
export function inTurn(piece) {
  pieces.add(piece);
  wait();
  return () => void pieces.delete(piece);
}

function wait() {
  if (awaited) return;
  awaited = true;
  beforeNextPicture(run);
}

async function run() {
  const turn = new Turn();
  for (let count = 0; count < MOST_PIECES && pieces.size && !turn.over(); count++) {
    const [piece] = pieces;
    pieces.delete(piece);
    piece();
    await null; // components are rendered again: their time counts, too
  }
  awaited = false;
  if (pieces.size) wait();
}
