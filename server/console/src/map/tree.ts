// The prefix tree of a map. Cells are its leaves, and every inner node is divided in two by its next bit. The
// logarithmic scale keeps small regions visible next to large ones, such as 2^20 and 2^40 identifiers.
import { type HierarchyNode, hierarchy } from "d3-hierarchy";
import type { Prefix } from "../lib/bits.ts";

/** A part of a map that is drawn as a unit. */
export interface Cell {
  prefix: Prefix;
}

/** A node of the tree: a cell, or the two halves below a prefix. */
export interface Node<C extends Cell> {
  prefix: Prefix;
  cell?: C;
  children?: [Node<C>, Node<C>];
}

/** The width of a cell: proportional to its number of identifiers, or to the logarithm of this number plus one. */
export type Scale = "width" | "log";

/** The weight of a prefix of this length below a prefix of `root` bits, in a space of `bits` bits. */
export function weightOf(scale: Scale, length: number, root: number, bits: number): number {
  return scale === "width" ? 2 ** (root - length) : bits - length + 1;
}

/** Builds the tree below `root`. The cells must tile it, in the order of their prefixes. */
export function toTree<C extends Cell>(cells: readonly C[], root: Prefix): Node<C> {
  let next = 0;
  const build = (prefix: Prefix): Node<C> => {
    const cell = cells[next];
    if (cell === undefined) throw new Error(`the cells of the map end before ${prefix}`);
    if (cell.prefix.length <= prefix.length) {
      next++;
      return { prefix, cell };
    }
    return { prefix, children: [build(`${prefix}0`), build(`${prefix}1`)] };
  };
  return build(root);
}

/** The tree with the weight of each node, for the layouts of d3-hierarchy. */
export function weigh<C extends Cell>(tree: Node<C>, scale: Scale, bits: number): HierarchyNode<Node<C>> {
  const root = tree.prefix.length;
  return hierarchy(tree, (node) => node.children).sum((node) =>
    node.cell ? weightOf(scale, node.prefix.length, root, bits) : 0,
  );
}
