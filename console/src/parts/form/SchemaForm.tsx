import { lazy, Suspense, useId, useState } from "react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";
import { Field } from "@/parts/Field";
import styles from "@/parts/form/form.module.css";
import type { Fault } from "@/parts/form/validator";
import { LoadingState } from "@/parts/State";

const SchemaFields = lazy(() => import("@/parts/form/SchemaFields"));

export interface SchemaFormProps {
  schema: object;
  value: unknown;
  onChange: (value: unknown) => void;
  /** Hears whether the text is JSON, so that nobody sends an earlier value than the one shown. */
  onText?: (isJson: boolean) => void;
  /** What the server refused; each is marked at its field. */
  faults?: readonly Fault[];
  /** Whether texts are secrets, which are not shown while they are typed. */
  isSecret?: boolean;
  isDisabled?: boolean;
}

/**
 * A form for JSON that a schema describes, with the same as text for what no form can express. The
 * caller has the value, and the buttons: `faultsOf` of the validator says whether it fits.
 */
export function SchemaForm(props: SchemaFormProps) {
  const id = useId().replaceAll(/[^A-Za-z0-9]/g, "");
  const [isText, setIsText] = useState(false);
  const toggle = () => {
    setIsText(!isText);
    props.onText?.(true);
  };
  const unplaced = (props.faults ?? []).filter((fault) => fault.pointer === "");
  return (
    <div className={styles.frame}>
      {props.isSecret !== true && (
        <div className={styles.switch}>
          <Button size="small" look="quiet" aria-pressed={isText} onClick={toggle}>
            {messages.form.asJson}
          </Button>
        </div>
      )}
      {unplaced.map((fault) => (
        <p key={fault.message} role="alert" className={styles.fault}>
          {fault.message}
        </p>
      ))}
      {isText ? (
        <JsonText {...props} />
      ) : (
        <Suspense fallback={<LoadingState />}>
          <SchemaFields {...props} id={`f${id}`} />
        </Suspense>
      )}
    </div>
  );
}

/** The value as text. What is no JSON stays in the field, and the last JSON is the value. */
function JsonText({ value, onChange, onText, faults, isDisabled }: SchemaFormProps) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2) ?? "");
  const [isJson, setIsJson] = useState(true);
  const change = (next: string) => {
    setText(next);
    try {
      onChange(JSON.parse(next) as unknown);
      setIsJson(true);
      onText?.(true);
    } catch {
      setIsJson(false);
      onText?.(false);
    }
  };
  const told = (faults ?? []).map((fault) => `${fault.pointer} ${fault.message}`).join("; ");
  return (
    <Field label={messages.form.json} fault={isJson ? told : messages.form.notJson}>
      {(ids) => (
        <textarea
          {...ids}
          className={styles.json}
          rows={12}
          spellCheck={false}
          value={text}
          disabled={isDisabled ?? false}
          onChange={(event) => change(event.target.value)}
        />
      )}
    </Field>
  );
}
