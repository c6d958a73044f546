export * from "./language.ts";
export * from "./machine.ts";
