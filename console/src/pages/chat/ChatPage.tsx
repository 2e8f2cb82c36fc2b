import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function ChatPage() {
  return (
    <Page title={messages.chat.title}>
      <LoadingState />
    </Page>
  );
}
