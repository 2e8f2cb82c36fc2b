export { Arguments } from "./Arguments";
export { Code } from "./Code";
export { Diff, PatchDiff } from "./Diff";
export { Json } from "./Json";
export { Result, type ResultFacts } from "./Result";
export { Value } from "./Value";
export { ValueTable } from "./ValueTable";
export { argumentViews, isObject, memberChanges, same, viewOf } from "./view";
export type { Json as JsonValue, JsonObject, Language, View } from "./view";
