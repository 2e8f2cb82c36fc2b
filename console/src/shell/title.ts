import { messages } from "@/messages";

let pageTitle = "";
let waiting = 0;

function show(): void {
  const page = pageTitle === "" ? messages.shell.name : `${pageTitle} - ${messages.shell.name}`;
  document.title = waiting > 0 ? `(${waiting}) ${page}` : page;
}

/** Name the page in the title of the tab. */
export function setPageTitle(title: string): void {
  pageTitle = title;
  show();
}

/** Put the number of calls that wait into the title of the tab. */
export function setWaitingCount(count: number): void {
  waiting = count;
  show();
}
