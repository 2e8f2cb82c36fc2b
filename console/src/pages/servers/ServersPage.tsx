import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function ServersPage() {
  return (
    <Page title={messages.servers.title}>
      <LoadingState />
    </Page>
  );
}
