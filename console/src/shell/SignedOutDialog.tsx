import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect, useState } from "react";

import { SIGNED_IN, SIGNED_OUT } from "@/api/client";
import { meQuery, type Me } from "@/api/principal";
import { messages } from "@/messages";
import { Dialog } from "@/parts/Dialog";
import { LoadingState } from "@/parts/State";

const SignInForm = lazy(async () => {
  const { SignInForm } = await import("@/pages/sign-in/SignInForm");
  return { default: SignInForm };
});

/** Says that the sign-in is over, above a page that keeps what was typed into it. */
export function SignedOutDialog({ me }: { me: Me }) {
  const [isOpen, setIsOpen] = useState(false);
  const queries = useQueryClient();
  const goOn = useCallback(
    (now: Me) => {
      // Somebody else must not see what was read for the one before.
      if (now.principal !== me.principal) window.location.reload();
      setIsOpen(false);
      void queries.invalidateQueries();
    },
    [me.principal, queries],
  );
  useEffect(() => {
    const open = () => setIsOpen(true);
    window.addEventListener(SIGNED_OUT, open);
    return () => window.removeEventListener(SIGNED_OUT, open);
  }, []);
  useEffect(() => {
    // Another tab has signed in: this one has the same cookie, and needs what goes with it.
    const check = () => void queries.fetchQuery({ ...meQuery, staleTime: 0 }).then(goOn, () => {});
    window.addEventListener(SIGNED_IN, check);
    return () => window.removeEventListener(SIGNED_IN, check);
  }, [queries, goOn]);
  return (
    <Dialog
      open={isOpen}
      onClose={() => setIsOpen(false)}
      title={messages.signIn.again}
      description={messages.signIn.againHint}
    >
      <Suspense fallback={<LoadingState />}>
        <SignInForm destination="/sign-in" inNewTab onSignedIn={goOn} />
      </Suspense>
    </Dialog>
  );
}
