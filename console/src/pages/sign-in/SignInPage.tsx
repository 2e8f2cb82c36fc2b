import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";

import { meQuery, signIn } from "@/api/principal";
import { messages } from "@/messages";
import { LoadingState, wordsOf } from "@/parts/State";
import { codeOf, destinationOf } from "@/pages/sign-in/destination";
import { SignInForm } from "@/pages/sign-in/SignInForm";
import styles from "@/pages/sign-in/SignInPage.module.css";
import { setPageTitle } from "@/shell/title";

const route = getRouteApi("/sign-in");

/** Signs in with a one-time link, an issuer or a token, and leads on to the page asked for. */
export function SignInPage() {
  const { from, error } = route.useSearch();
  const router = useRouter();
  const code = useLocation({ select: (location) => codeOf(location.hash) });
  const destination = destinationOf(from, window.location.origin);
  const goOn = () => router.history.replace(destination);
  const exchange = useExchange(code, goOn);
  const me = useQuery({ ...meQuery, enabled: code === null && exchange.isIdle });
  useEffect(() => setPageTitle(messages.signIn.title), []);
  useEffect(() => {
    // Whoever has signed in already, or with an issuer just now, need not do it again.
    if (me.isSuccess && error === undefined) router.history.replace(destination);
  }, [me.isSuccess, error, destination, router]);

  const fault = exchange.isError ? wordsOf(exchange.error) : messages.signIn.faultOf(error);
  const isBusy = code !== null || exchange.isPending || exchange.isSuccess || me.isLoading;
  return (
    <main className={styles.place}>
      <div className={styles.card}>
        <p className={styles.name}>{messages.shell.name}</p>
        <h1>{messages.signIn.title}</h1>
        {isBusy ? (
          <LoadingState label={messages.signIn.pending} />
        ) : (
          <>
            {fault !== null && (
              <div role="alert" className={styles.fault}>
                <p>{fault}</p>
              </div>
            )}
            <SignInForm destination={destination} onSignedIn={goOn} />
            <p className={styles.link}>
              {messages.signIn.linkHint} <code>{messages.signIn.linkCommand}</code>
            </p>
          </>
        )}
      </div>
    </main>
  );
}

/** Exchange the code of the address, which leaves the address and the history of the browser. */
function useExchange(code: string | null, goOn: () => void) {
  const navigate = useNavigate();
  const exchange = useMutation({ mutationFn: signIn, onSuccess: goOn });
  const { mutate } = exchange;
  useEffect(() => {
    if (code === null) return;
    void navigate({ to: "/sign-in", search: true, hash: "", replace: true });
    mutate({ code });
  }, [code, mutate, navigate]);
  return exchange;
}
