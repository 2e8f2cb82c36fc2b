import { Link } from "@tanstack/react-router";

import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { EmptyState } from "@/parts/State";

export function NoPage() {
  return (
    <Page title={messages.shell.noPage}>
      <EmptyState title={messages.shell.noPageHint}>
        <Link to="/">{messages.shell.home}</Link>
      </EmptyState>
    </Page>
  );
}
