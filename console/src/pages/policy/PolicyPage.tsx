import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function PolicyPage() {
  return (
    <Page title={messages.policy.title}>
      <LoadingState />
    </Page>
  );
}
