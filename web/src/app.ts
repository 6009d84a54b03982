// What every view is given, and what it gives back.
import type { Board } from "./contract";
import type { Data } from "./data";
import type { Route } from "./route";

export interface Context {
  data: Data;
  route: Route;
  /** The judge whose numbers are shown. */
  board: Board;
}

export interface View {
  element: HTMLElement;
  /** Take a changed address without being built anew; false where that is not possible. */
  update?: (context: Context) => boolean;
  /** Colours have changed. */
  repaint?: () => void;
  close?: () => void;
}
