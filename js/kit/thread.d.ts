declare module "*?thread" {
  const script: string;
  export default script;
}
