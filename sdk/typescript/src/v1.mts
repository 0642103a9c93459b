// For `import`: the same code as for `require`.
export * from "./v1.js";
