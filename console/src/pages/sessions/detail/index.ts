export { EventDetail } from "./EventDetail";
export { ExportLink } from "./ExportLink";
export { Waterfall } from "./WaterfallStrip";
