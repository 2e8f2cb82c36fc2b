import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function GrantsPage() {
  return (
    <Page title={messages.grants.title}>
      <LoadingState />
    </Page>
  );
}
