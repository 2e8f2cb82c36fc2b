import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function SessionsPage() {
  return (
    <Page title={messages.sessions.title}>
      <LoadingState />
    </Page>
  );
}
