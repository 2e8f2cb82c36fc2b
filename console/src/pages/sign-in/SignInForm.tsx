import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";

import { api, dataOf } from "@/api/client";
import { signIn, type Me } from "@/api/principal";
import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import { wordsOf } from "@/parts/State";
import styles from "@/pages/sign-in/SignInForm.module.css";

/**
 * The ways to sign in: each issuer, and a token. With `inNewTab` the issuers open beside the page,
 * which keeps what was typed into it.
 */
export function SignInForm({
  destination,
  inNewTab = false,
  onSignedIn,
}: {
  destination: string;
  inNewTab?: boolean;
  onSignedIn: (me: Me) => void;
}) {
  const [token, setToken] = useState("");
  const options = useQuery({
    queryKey: ["sign-in-options"],
    queryFn: async () => dataOf(await api.GET("/v1/sign-in/options")),
    staleTime: Infinity,
  });
  const exchange = useMutation({ mutationFn: signIn, onSuccess: onSignedIn });
  const issuers = options.data?.issuers ?? [];
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim() !== "") exchange.mutate({ token: token.trim() });
  };
  return (
    <form className={styles.form} onSubmit={submit}>
      {issuers.length > 0 && (
        <>
          <ul className={styles.issuers}>
            {issuers.map((issuer) => (
              <li key={issuer.label}>
                <a
                  className={styles.issuer}
                  href={`${issuer.url}&next=${encodeURIComponent(destination)}`}
                  {...(inNewTab ? { target: "_blank", rel: "noopener" } : {})}
                >
                  {messages.signIn.issuer(issuer.label)}
                </a>
              </li>
            ))}
          </ul>
          <p className={styles.or}>{messages.signIn.or}</p>
        </>
      )}
      <Field
        label={messages.signIn.token}
        hint={messages.signIn.tokenHint}
        fault={exchange.isError ? wordsOf(exchange.error) : undefined}
      >
        {(ids) => (
          <input
            {...ids}
            type="password"
            name="token"
            autoComplete="off"
            spellCheck={false}
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" look="strong" disabled={token.trim() === "" || exchange.isPending}>
        {exchange.isPending ? messages.signIn.pending : messages.signIn.submit}
      </Button>
    </form>
  );
}
