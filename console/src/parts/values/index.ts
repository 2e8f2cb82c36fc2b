export { Arguments } from "./Arguments";
export { Code } from "./Code";
export { CopyButton } from "./CopyButton";
export { Diff, PatchDiff } from "./Diff";
export { Json } from "./Json";
export { Value } from "./Value";
export { ValueTable } from "./ValueTable";
export { argumentViews, isObject, memberChanges, same, viewOf } from "./view";
export type { Json as JsonValue, JsonObject, Language, View } from "./view";
