// The axis: from ns to shares of it and back, and round moments for its labels.

import { clamp } from "./numbers.js";

const SECOND = 1e9;
const MINUTES = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** The smallest round interval of at least that many ns: 1, 2, 5 by tens, then minutes. */
const roundStep = (least) => {
  for (let power = 1; power <= 10 * SECOND; power *= 10)
    for (const digit of [1, 2, 5])
      if (digit * power >= least && digit * power <= 30 * SECOND) return digit * power;
  const seconds = MINUTES.find((minutes) => minutes * SECOND >= least);
  return (seconds ?? Math.ceil(least / (86400 * SECOND)) * 86400) * SECOND;
};

/** A round moment: only as many digits as the interval needs. */
const tickLabel = (ns, step) => {
  if (ns === 0) return "0";
  if (step >= SECOND && ns >= 60 * SECOND) {
    const seconds = Math.round(ns / SECOND);
    const rest = seconds % 60;
    return `${Math.floor(seconds / 60)} min${rest ? ` ${rest} s` : ""}`;
  }
  const [unit, name] = [[SECOND, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([u]) => ns >= u);
  const digits = clamp(Math.ceil(Math.log10(unit / step)), 0, 9);
  return `${Number((ns / unit).toFixed(digits))} ${name}`;
};

export class Axis {
  constructor({ moments, shares }) {
    this.moments = moments;
    this.shares = shares;
  }

  /** Linear between the points at which the axis bends, which are the edges of folded gaps. */
  static between(value, from, to) {
    let index = 1;
    while (index < from.length - 1 && from[index] < value) index += 1;
    const span = from[index] - from[index - 1];
    const part = span ? (value - from[index - 1]) / span : 0;
    return to[index - 1] + part * (to[index] - to[index - 1]);
  }

  share(ns) {
    return Axis.between(ns, this.moments, this.shares);
  }

  moment(share) {
    return Axis.between(share, this.shares, this.moments);
  }

  /** Round moments in a stretch of the axis, none inside a folded gap. */
  ticks(from, to, count) {
    const [start, end] = [this.moment(from), this.moment(to)];
    const slope = (to - from) / count; // shares a label
    const first = Math.max(1, this.moments.at(-1) - this.folded());
    const step = roundStep((slope / this.openShare()) * first);
    const ticks = [];
    for (let ns = Math.ceil(start / step) * step; ns <= end; ns += step) {
      const share = this.share(ns);
      const isClose = ticks.length && share - ticks.at(-1).share < slope / 2; // beside a fold
      if (!isClose && !this.isFolded(ns)) ticks.push({ share, label: tickLabel(ns, step) });
    }
    return ticks;
  }

  *folds() {
    for (let index = 1; index < this.moments.length - 1; index += 2)
      yield [index, index + 1].map((at) => [this.moments[at], this.shares[at]]);
  }

  folded() {
    return [...this.folds()].reduce((sum, [[from], [to]]) => sum + to - from, 0);
  }

  openShare() {
    return 1 - [...this.folds()].reduce((sum, [[, from], [, to]]) => sum + to - from, 0);
  }

  isFolded(ns) {
    return [...this.folds()].some(([[from], [to]]) => ns > from && ns < to);
  }
}
