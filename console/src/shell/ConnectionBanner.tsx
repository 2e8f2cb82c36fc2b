import { WifiOff } from "lucide-react";

import { messages } from "@/messages";
import { useConnection } from "@/shell/connection";
import styles from "@/shell/ConnectionBanner.module.css";

/** Says that the server is away, for as long as it is. */
export function ConnectionBanner() {
  const state = useConnection();
  return (
    <div role="status">
      {state === "lost" && (
        <p className={styles.banner}>
          <WifiOff aria-hidden size={16} />
          {messages.shell.lost}
        </p>
      )}
    </div>
  );
}
