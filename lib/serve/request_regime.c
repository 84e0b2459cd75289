/* Which RoPE regime a request is in. */
#include "serve/request_regime.h"

#include "model/model_states.h"

pc__request_regime pc__regime_of_key(const pc_model *model, uint64_t key)
{
    uint64_t length = pc__model_rope_regime_length(model, key);
    return (pc__request_regime){length, key, key ? length : 0,
                                pc__model_rope_regime_end(model, key)};
}

pc__request_regime pc__regime_for_length(const pc_model *model, uint64_t chosen, int64_t reach)
{
    uint64_t limit = (uint64_t)model->info.context_length, length = chosen      ? chosen
                                                                    : reach > 0 ? (uint64_t)reach
                                                                                : 1;
    pc__request_regime regime;
    if (!pc__model_is_native(model))
        return (pc__request_regime){chosen ? chosen : limit, chosen, chosen ? chosen : limit,
                                    INT64_MAX};
    if (limit && length > limit)
        length = limit;
    regime = pc__regime_of_key(model, pc__model_rope_regime(model, length));
    regime.decided = regime.key ? length : 0;
    return regime;
}
