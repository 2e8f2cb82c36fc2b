import { beforeEach, expect, test } from "vitest";

import { keepDraft, readDraft } from "@/pages/chat/drafts";

beforeEach(() => sessionStorage.clear());

test("each conversation has its own draft, also a new one", () => {
  keepDraft("ses_1", { text: "one", key: "k" });
  keepDraft(null, { text: "new", key: null });
  expect(readDraft("ses_1")).toEqual({ text: "one", key: "k" });
  expect(readDraft(null).text).toBe("new");
  expect(readDraft("ses_2").text).toBe("");
});

test("an empty draft leaves nothing behind", () => {
  keepDraft("ses_1", { text: "one", key: null });
  keepDraft("ses_1", { text: "", key: null });
  expect(sessionStorage.length).toBe(0);
});

test("what somebody else wrote there is no draft", () => {
  sessionStorage.setItem("toolcrib.chat.draft.ses_1", '{"text": 5}');
  expect(readDraft("ses_1")).toEqual({ text: "", key: null });
  sessionStorage.setItem("toolcrib.chat.draft.ses_1", "{");
  expect(readDraft("ses_1").text).toBe("");
});
