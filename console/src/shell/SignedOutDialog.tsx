import { useEffect, useState } from "react";

import { SIGNED_OUT } from "@/api/client";
import { messages } from "@/messages";
import { Dialog, DialogActions } from "@/parts/Dialog";

/** Says that the sign-in is over, above a page that keeps what was typed into it. */
export function SignedOutDialog() {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const open = () => setIsOpen(true);
    window.addEventListener(SIGNED_OUT, open);
    return () => window.removeEventListener(SIGNED_OUT, open);
  }, []);
  return (
    <Dialog open={isOpen} onClose={() => setIsOpen(false)} title={messages.shell.signedOut}>
      <DialogActions>
        <a href="/sign-in" target="_blank" rel="noopener">
          {messages.shell.signIn}
        </a>
      </DialogActions>
    </Dialog>
  );
}
