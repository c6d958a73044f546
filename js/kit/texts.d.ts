declare module "*?thread" {
  const script: string;
  export default script;
}
declare module "*?wasm" {
  const base64: string;
  export default base64;
}
