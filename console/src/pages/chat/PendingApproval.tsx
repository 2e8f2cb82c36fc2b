import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { api, dataOf } from "@/api/client";
import { can, useMe } from "@/api/principal";
import { messages } from "@/messages";
import styles from "@/pages/chat/chat.module.css";
import { Button } from "@/parts/Button";
import { wordsOf } from "@/parts/State";

/** A call that waits: decided here by who may, and by others in the inbox. */
export function PendingApproval({ approvalId }: { approvalId: string }) {
  const me = useMe();
  const cache = useQueryClient();
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const approval = useQuery({
    queryKey: ["approval", approvalId],
    queryFn: async () =>
      dataOf(
        await api.GET("/v1/approvals/{approval_id}", {
          params: { path: { approval_id: approvalId } },
        }),
      ),
  });
  if (!can(me, "approver")) return <p className={styles.hint}>{messages.chat.waitsForOthers}</p>;
  if (!approval.isSuccess || approval.data.state !== "pending") return null;
  const decide = async (decision: "approve" | "deny") => {
    setFault(null);
    try {
      await api.POST("/v1/approvals/{approval_id}/decide", {
        params: { path: { approval_id: approvalId } },
        body: {
          decision,
          digest: approval.data.digest,
          ...(decision === "deny" && reason !== "" ? { reason } : {}),
        },
      });
      void cache.invalidateQueries({ queryKey: ["approval", approvalId] });
    } catch (error) {
      setFault(error);
    }
  };
  return (
    <div className={styles.decision}>
      <Link to="/inbox">{messages.shell.inbox}</Link>
      <input
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        aria-label="reason"
      />
      <Button onClick={() => void decide("deny")}>Deny</Button>
      <Button onClick={() => void decide("approve")}>Approve</Button>
      {fault !== null && <p className={styles.fault}>{wordsOf(fault)}</p>}
    </div>
  );
}
