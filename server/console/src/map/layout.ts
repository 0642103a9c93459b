// Lays out the nodes of a prefix tree. An icicle has a row for each level. A Morton map halves the plane alternately:
// from left to right, then from top to bottom.
import {
  type HierarchyNode,
  type HierarchyRectangularNode,
  partition,
  treemap,
  treemapDice,
  treemapSlice,
} from "d3-hierarchy";
import { scaleLinear } from "d3-scale";
import type { Prefix } from "../lib/bits.ts";
import { type Cell, type Node, type Scale, toTree, weigh } from "./tree.ts";

/** A rectangle in pixels. */
export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A node and its rectangle. An inner node has no cell. */
export interface Placed<C extends Cell> extends Rect {
  prefix: Prefix;
  cell?: C;
}

/** The kind of map: an icicle or a Morton map. */
export type View = "icicle" | "morton";

/** A map to lay out. */
export interface Plan<C extends Cell> {
  cells: readonly C[];
  /** The prefix that fills the picture. */
  root: Prefix;
  /** The width of the identifiers in bits. */
  bits: number;
  view: View;
  scale: Scale;
  width: number;
  height: number;
}

/** Lays out a map. Parents come before their children, and cells in the order of their prefixes. */
export function layOut<C extends Cell>(plan: Plan<C>): Placed<C>[] {
  if (plan.cells.length === 0) return [];
  const root = weigh(toTree(plan.cells, plan.root), plan.scale, plan.bits);
  return plan.view === "icicle" ? icicle(root, plan) : morton(root, plan);
}

/** Halves the plane: from left to right by even bits, and from top to bottom by odd bits. */
function morton<C extends Cell>(root: HierarchyNode<Node<C>>, plan: Plan<C>): Placed<C>[] {
  const halve = treemap<Node<C>>()
    .size([plan.width, plan.height])
    .tile((node, x0, y0, x1, y1) => {
      const along = (plan.root.length + node.depth) % 2 === 0 ? treemapDice : treemapSlice;
      along(node, x0, y0, x1, y1);
    });
  return inOrder(halve(root)).map(({ data, x0, y0, x1, y1 }) =>
    place(data, { x: x0, y: y0, width: x1 - x0, height: y1 - y0 }),
  );
}

/** In an icicle, each node fills the row of its last bit. A cell also fills all rows below. */
function icicle<C extends Cell>(root: HierarchyNode<Node<C>>, plan: Plan<C>): Placed<C>[] {
  const depth = depthScale(plan);
  return inOrder(partition<Node<C>>().size([plan.width, 1])(root)).map((node) => {
    const { prefix, cell } = node.data;
    const top = depth(Math.max(prefix.length - 1, plan.root.length));
    const bottom = cell ? plan.height : depth(prefix.length);
    return place(node.data, { x: node.x0, y: top, width: node.x1 - node.x0, height: bottom - top });
  });
}

/** The nodes in the order of their prefixes, parents first. */
function inOrder<C extends Cell>(root: HierarchyRectangularNode<Node<C>>): HierarchyRectangularNode<Node<C>>[] {
  const nodes: HierarchyRectangularNode<Node<C>>[] = [];
  root.eachBefore((node) => nodes.push(node));
  return nodes;
}

/** Returns a function that maps a bit's number to the y coordinate, in pixels, at which the bit's row begins. */
export function depthScale(plan: { root: Prefix; bits: number; height: number }): (bit: number) => number {
  return scaleLinear([plan.root.length, Math.max(plan.bits, plan.root.length + 1)], [0, plan.height]);
}

function place<C extends Cell>({ prefix, cell }: Node<C>, rect: Rect): Placed<C> {
  return cell ? { prefix, cell, ...rect } : { prefix, ...rect };
}

/** The innermost node at a point. */
export function nodeAt<C extends Cell>(placed: readonly Placed<C>[], x: number, y: number): Placed<C> | undefined {
  return placed.findLast((node) => x >= node.x && x < node.x + node.width && y >= node.y && y < node.y + node.height);
}

/** The node with the longest prefix that contains the whole window. After a gesture, the map shows this prefix. */
export function holderOf<C extends Cell>(
  placed: readonly Placed<C>[],
  view: View,
  window: Rect,
): Placed<C> | undefined {
  const slack = 0.5;
  return placed.findLast(
    (node) =>
      node.x <= window.x + slack &&
      node.x + node.width >= window.x + window.width - slack &&
      (view === "icicle" || (node.y <= window.y + slack && node.y + node.height >= window.y + window.height - slack)),
  );
}

/** The corner of a region's rectangle that its suffix fills. The rest is the zone. */
export function suffixRect(rect: Rect, scale: Scale, zoneBits: number, suffixBits: number): Rect {
  const share = scale === "width" ? 2 ** -zoneBits : (suffixBits + 1) / (suffixBits + zoneBits + 1);
  const side = Math.sqrt(share);
  return {
    x: rect.x,
    y: rect.y,
    width: Math.min(rect.width, Math.max(rect.width * side, 2)),
    height: Math.min(rect.height, Math.max(rect.height * side, 2)),
  };
}
