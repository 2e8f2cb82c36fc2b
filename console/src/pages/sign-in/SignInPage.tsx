import { messages } from "@/messages";
import { Page } from "@/parts/Page";
import { LoadingState } from "@/parts/State";

export function SignInPage() {
  return (
    <Page title={messages.signIn.title}>
      <LoadingState />
    </Page>
  );
}
