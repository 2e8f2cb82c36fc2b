import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function PeoplePage() {
  return (
    <Page title={messages.people.title}>
      <LoadingState />
    </Page>
  );
}
