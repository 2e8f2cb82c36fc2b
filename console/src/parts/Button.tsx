import type { ButtonHTMLAttributes, Ref } from "react";

import styles from "@/parts/Button.module.css";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "plain" | "strong" | "danger" | "quiet";
  size?: "small" | "normal";
  ref?: Ref<HTMLButtonElement>;
}

/** A button that submits nothing unless it is told to. */
export function Button({ look = "plain", size = "normal", className, ...rest }: ButtonProps) {
  const classes = [styles.button, styles[look], styles[size], className].filter(Boolean).join(" ");
  return <button type="button" {...rest} className={classes} />;
}
