-- give writes that an owner has the lock. It returns false if the slot is being moved: the server then refuses to write a key that was
-- deleted, here.
local function give(...) return type(redis.pcall('hset', KEYS[1], ...)) == 'number' end
