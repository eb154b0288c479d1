#!/usr/bin/env escript
%%! -noshell
%% Reads {hash, Term} and {jump, Key, Buckets} from standard input, one after the other, and prints an answer a line:
%% of a term erlang:phash2 with its own range and with 2^32; of a key its bucket, as RabbitMQ's exchange type
%% x-consistent-hash finds it (jump consistent hash over the random numbers of exs1024).

-mode(compile).

main([]) ->
    ok = io:setopts([{encoding, unicode}]),
    answer().

answer() ->
    case io:read("") of
        eof -> io:format("~s~n", [otp_version()]);
        {ok, {hash, Term}} -> io:format("~b ~b~n", [erlang:phash2(Term), erlang:phash2(Term, 1 bsl 32)]), answer();
        {ok, {jump, Key, Buckets}} -> io:format("~b~n", [bucket(Key, Buckets)]), answer()
    end.

bucket(Key, Buckets) ->
    jump(-1, 0, Buckets, rand:seed_s(exs1024, {Key, Key, Key})).

jump(Bucket, Next, Buckets, _) when Next >= Buckets -> Bucket;
jump(_, Next, Buckets, Before) ->
    {Random, After} = rand:uniform_s(Before),
    jump(Next, trunc((Next + 1) / Random), Buckets, After).

otp_version() ->
    Release = erlang:system_info(otp_release),
    {ok, Version} = file:read_file(filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"])),
    string:trim(Version).
