"""Verification as a reward, in the form that each trainer calls: `trl`, `verl`, `verifiers`, one module each.

    from stepTP.rewards.trl import step_reward          # GRPOTrainer(reward_funcs=step_reward, ...)

No trainer is imported here: each module is a function of the signature that its trainer documents.
"""
