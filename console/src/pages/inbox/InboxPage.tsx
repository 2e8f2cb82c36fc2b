import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function InboxPage() {
  return (
    <Page title={messages.inbox.title}>
      <LoadingState />
    </Page>
  );
}
