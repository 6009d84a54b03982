// Which frame of an episode is on screen at which time; seconds count from its first frame.

export class FrameClock {
  /**
   * @param frames Number of frames.
   * @param fps Frames per second.
   * @param times Start of each frame in seconds, where that is not i / fps.
   */
  constructor(
    readonly frames: number,
    readonly fps: number,
    private readonly times: Float64Array | null = null,
  ) {}

  /** Mean time between frames. */
  get step(): number {
    return this.times && this.frames > 1 ? this.times[this.frames - 1] / (this.frames - 1) : 1 / this.fps;
  }

  get duration(): number {
    return this.time(this.frames - 1) + this.step;
  }

  /** Start of frame i. */
  time(i: number): number {
    return this.times ? this.times[i] : i / this.fps;
  }

  /** The middle of the time for which frame i is on screen. */
  middle(i: number): number {
    const end = i + 1 < this.frames ? this.time(i + 1) : this.time(i) + this.step;
    return (this.time(i) + end) / 2;
  }

  /** The frame on screen at a time, within the episode. */
  at(time: number): number {
    const slack = 1e-6;
    if (!this.times) return this.clamp(Math.floor((time + slack) * this.fps));
    let low = 0;
    let high = this.frames;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time + slack) low = middle + 1;
      else high = middle;
    }
    return this.clamp(low - 1);
  }

  /** The frame whose start is nearest; not kept within the episode where frames are evenly spaced. */
  nearest(time: number): number {
    if (!this.times) return Math.round(time * this.fps);
    const before = this.at(time);
    const after = this.clamp(before + 1);
    return this.times[after] - time < time - this.times[before] ? after : before;
  }

  private clamp(i: number): number {
    return Math.min(this.frames - 1, Math.max(0, i));
  }
}
