// The context that every view gets, and the view it returns.
import type { Leaderboard } from "./contract";
import type { Data } from "./data";
import type { Route } from "./route";

export interface Context {
  data: Data;
  route: Route;
  /** The judge whose numbers are on the page. */
  board: Leaderboard;
}

export interface View {
  element: HTMLElement;
  /** Follow a changed address without being rebuilt; false if that is not possible. */
  update?: (context: Context) => boolean;
  /** Show newer data of the same runs without leaving the user's place; false if the view must be rebuilt. */
  refresh?: (context: Context) => boolean;
  /** Colours have changed. */
  repaint?: () => void;
  close?: () => void;
}
