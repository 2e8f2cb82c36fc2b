import { useId, type ReactNode } from "react";

import styles from "@/parts/Field.module.css";

export interface FieldIds {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean;
}

/** A labelled input with its hint and its fault. `children` gets the attributes of the input. */
export function Field({
  label,
  hint,
  fault,
  children,
}: {
  label: ReactNode;
  hint?: ReactNode;
  fault?: ReactNode;
  children: (ids: FieldIds) => ReactNode;
}) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", fault ? `${id}-fault` : ""]
    .filter(Boolean)
    .join(" ");
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={styles.label}>
        {label}
      </label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": Boolean(fault) })}
      {hint && (
        <p id={`${id}-hint`} className={styles.hint}>
          {hint}
        </p>
      )}
      {fault && (
        <p id={`${id}-fault`} className={styles.fault} role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}
