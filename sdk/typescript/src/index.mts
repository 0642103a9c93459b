// For `import`: the same code as for `require`, so that a program has each class once.
export * from "./index.js";
