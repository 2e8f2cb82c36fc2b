import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function ToolsPage() {
  return (
    <Page title={messages.tools.title}>
      <LoadingState />
    </Page>
  );
}
