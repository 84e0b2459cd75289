/* Tensor roles: the matrices and norms of a model, whatever a file calls them. */
#ifndef PC_MODEL_TENSOR_ROLE_H
#define PC_MODEL_TENSOR_ROLE_H

typedef enum pc__tensor_role {
    PC__ROLE_EMBEDDING,
    PC__ROLE_POSITIONS,
    PC__ROLE_PROJECT_IN,
    PC__ROLE_PROJECT_OUT,
    PC__ROLE_EMBEDDING_NORM,
    PC__ROLE_FINAL_NORM,
    PC__ROLE_HEAD,
    PC__ROLE_NORM1, /* of the inputs of attention and MLP */
    PC__ROLE_NORM2,
    PC__ROLE_OUTPUT_NORM1, /* of their results */
    PC__ROLE_OUTPUT_NORM2,
    PC__ROLE_Q_NORM,
    PC__ROLE_K_NORM,
    PC__ROLE_SINKS,
    /* Latent attention, where Q_NORM and K_NORM are of narrow queries and latents: projections to
       narrow queries, to the latent and the rotated part of keys, from latents to all heads. Some
       files have the latter's rows of keys and of values apart (latent_join.h). */
    PC__ROLE_Q_A,
    PC__ROLE_KV_A,
    PC__ROLE_KV_B,
    PC__ROLE_K_B,
    PC__ROLE_V_B,
    PC__ROLE_Q,
    PC__ROLE_K,
    PC__ROLE_V,
    PC__ROLE_O,
    PC__ROLE_GATE,
    PC__ROLE_UP,
    PC__ROLE_DOWN,
    /* Layers with experts, where GATE, UP and DOWN are of the shared MLP. The matrices of all
       experts are one role, one below the other. */
    PC__ROLE_ROUTER,
    PC__ROLE_SELECTION_BIAS,
    PC__ROLE_EXPERT_GATE,
    PC__ROLE_EXPERT_UP,
    PC__ROLE_EXPERT_DOWN,
    PC__ROLE_SHARED_SCALE,
    PC__ROLE_POSITION_K,
    PC__ROLE_POSITION_Q,
    /* Encoders, outside the layers. */
    PC__ROLE_TYPES,
    PC__ROLE_RELATIVE,
    PC__ROLE_RELATIVE_NORM,
    PC__ROLE_CONV,
    PC__ROLE_CONV_NORM,
    PC__ROLE_POOL,
    PC__ROLE_CLASSIFIER
} pc__tensor_role;
enum { PC__ROLES = PC__ROLE_CLASSIFIER + 1 };
#define PC__ROLE_IN_LAYER(role) ((role) >= PC__ROLE_NORM1 && (role) < PC__ROLE_TYPES)

const char *pc__tensor_role_name(pc__tensor_role role); /* "attention query", for error texts */

#endif
