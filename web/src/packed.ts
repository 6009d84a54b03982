// Columns as the contract packs them, decoded on first use.
import type { Dict, Packed } from "./contract";

const WIDTHS = { f64: 8, u8: 1, u16: 2, u32: 4 };

/** A packed column of numbers; NaN is unknown. The base64 is decoded at the first access. */
export class Numbers {
  private array: Float64Array | Uint8Array | Uint16Array | Uint32Array | null = null;

  constructor(private readonly packed: Packed) {}

  get length(): number {
    return this.decoded().length;
  }

  get(i: number): number {
    const q = this.decoded()[i];
    if (this.packed.enc === "f64") return q;
    if (q === 2 ** (8 * WIDTHS[this.packed.enc]) - 1) return NaN;
    return (this.packed.offset ?? 0) + q / (this.packed.scale ?? 1);
  }

  slice(from: number, to: number): Float64Array {
    const values = new Float64Array(to - from);
    for (let i = from; i < to; i += 1) values[i - from] = this.get(i);
    return values;
  }

  all(): Float64Array {
    return this.slice(0, this.length);
  }

  private decoded(): Float64Array | Uint8Array | Uint16Array | Uint32Array {
    return (this.array ??= decode(this.packed));
  }
}

function decode({ enc, b64 }: Packed): Float64Array | Uint8Array | Uint16Array | Uint32Array {
  const text = atob(b64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  if (enc === "u8") return bytes;
  const view = new DataView(bytes.buffer);
  const n = bytes.length / WIDTHS[enc];
  // Read byte by byte where the machine is not little-endian, as the packed numbers are.
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] === 1) {
    if (enc === "u16") return new Uint16Array(bytes.buffer, 0, n);
    if (enc === "u32") return new Uint32Array(bytes.buffer, 0, n);
    return new Float64Array(bytes.buffer, 0, n);
  }
  if (enc === "u16") return Uint16Array.from({ length: n }, (_, i) => view.getUint16(2 * i, true));
  if (enc === "u32") return Uint32Array.from({ length: n }, (_, i) => view.getUint32(4 * i, true));
  return Float64Array.from({ length: n }, (_, i) => view.getFloat64(8 * i, true));
}

/** The string of row `i`; null where there is none. */
export function textAt(column: Dict, i: number): string | null {
  const code = column.codes[i];
  return code < 0 ? null : column.values[code];
}

/** 0, and the sum of the first i lengths: where each of several concatenated arrays begins. */
export function sums(lengths: number[]): Uint32Array {
  const starts = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i += 1) starts[i + 1] = starts[i] + lengths[i];
  return starts;
}

/** Indices at which an ascending column equals `value`. */
export function rowsWith(column: ArrayLike<number>, value: number): number[] {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  const found: number[] = [];
  for (let i = low; i < column.length && column[i] === value; i += 1) found.push(i);
  return found;
}
