import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function ActivityPage() {
  return (
    <Page title={messages.activity.title}>
      <LoadingState />
    </Page>
  );
}
